"""Packaging of metatwist; tool settings live in pyproject.toml."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

setup(
    name="metatwist",
    version="0.1.0",
    description="The MetaQ 1.4 (Metamorphosis) message broker, on Twisted",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=[
        *find_packages(include=["metatwist", "metatwist.*"]),
        "metatwist.dashboard.templates",
        "twisted.plugins",
    ],
    package_dir={"metatwist.dashboard.templates": "templates"},
    package_data={
        "metatwist": ["py.typed"],
        "metatwist.dashboard.templates": ["**/*"],
    },
    zip_safe=False,
    install_requires=[
        "Twisted[tls]>=24.7",
        "klein>=24.8",
        "Jinja2>=3.1",
        "treq>=24.9",
        "kazoo>=2.10",
        "attrs>=23.2",
        "protobuf>=5.26",
        "croniter>=3.0",
        "prometheus-client>=0.20",
        "click>=8.1",
        "rich>=13.7",
    ],
    extras_require={
        "mysql": ["PyMySQL>=1.1"],
        "postgres": ["psycopg[binary]>=3.1"],
        "speed": ["isal>=1.6; platform_machine in 'x86_64 AMD64 aarch64'"],
        "dev": [
            "hypothesis>=6.100",
            "mypy>=1.11",
            "mypy-zope>=1.0.8",
            "psycopg[binary]>=3.1",
            "PyMySQL>=1.1",
            "pytest>=8.2",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.6",
            "ruff>=0.6",
            "setuptools>=70.1",
            "types-croniter",
        ],
    },
    entry_points={"console_scripts": ["metatwist=metatwist.cli.main:main"]},
    classifiers=[
        "Framework :: Twisted",
        "License :: OSI Approved :: Apache Software License",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Topic :: System :: Networking",
    ],
)
