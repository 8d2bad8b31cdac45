# What can be done here; `make help` lists it. Everything but `clean` sets itself up.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first of these that is Python 3.10 or later makes the virtual environment.
PYTHON := python3.13 python3.12 python3.11 python3.10 python3
PORT := 8123
ZOOKEEPER_PORT := 2181
VENV := .venv
PY := $(VENV)/bin/python
# Not every way of an editable install lets twistd see our plugin folder; this one does.
INSTALL = $(PY) -m pip --disable-pip-version-check install --quiet \
    --constraint constraints.txt --config-settings editable_mode=compat
INSTALLED_FROM := setup.py pyproject.toml constraints.txt

.PHONY: help run test check bench bench-client bench-coordinator crash crash-short crash-coordinator soak corpus clean

help:
	@echo 'make run          start a broker on 127.0.0.1:$(PORT), data in ./data'
	@echo 'make test         run the tests; ARGS="tests/wire -k put" runs some of them'
	@echo 'make check        lint, format, types, structure'
	@echo 'make bench        measure, beside a bare C server and the Java broker'
	@echo 'make bench-client our client beside the released Java client, on one broker'
	@echo 'make bench-coordinator  offset writes into the embedded coordinator beside puts'
	@echo 'make crash        kill the broker 200 times under load and check what is left'
	@echo 'make crash-short  the same, a few times'
	@echo 'make crash-coordinator'
	@echo '                  kill the embedded coordinator 150 times, as make crash does'
	@echo 'make soak         our client for 5 minutes, while all around it fails'
	@echo 'make corpus       put 300 MB of real text and read it back'
	@echo 'make clean        remove what these made, but not ./data'

run: $(VENV)/run.stamp
	@$(PY) -c "$$PORT_IS_FREE"
	@printf '%s\n' "$$WHAT_NEXT"
	@METATWIST_SYSTEM_SERVERPORT=$(PORT) \
	    METATWIST_METATWIST_COORDINATORENDPOINT=tcp:$(ZOOKEEPER_PORT):interface=127.0.0.1 \
	    exec $(VENV)/bin/twistd --nodaemon --pidfile= metaq --data ./data

test: $(VENV)/dev.stamp
	@$(PY) -m pytest -n auto $(ARGS)

check: $(VENV)/dev.stamp
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(PY) -m pytest -q tests/test_structure.py

bench: $(VENV)/run.stamp
	@$(PY) bench/run.py $(ARGS)

bench-client: $(VENV)/dev.stamp
	@$(PY) bench/client.py $(ARGS)

bench-coordinator: $(VENV)/dev.stamp
	@$(PY) bench/coordinator.py $(ARGS)

crash: $(VENV)/dev.stamp
	@$(PY) -m tests.crash.run --rounds 200 $(ARGS)

crash-short: $(VENV)/dev.stamp
	@$(PY) -m tests.crash.run --rounds 6 $(ARGS)

crash-coordinator: $(VENV)/dev.stamp
	@$(PY) -m tests.crash.run_coordinator --rounds 150 $(ARGS)

soak: $(VENV)/dev.stamp
	@$(PY) -m tests.soak.run --minutes 5 $(ARGS)

corpus: $(VENV)/dev.stamp
	@$(PY) -m tests.crash.corpus --megabytes 300 $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info bench/build tests/interop/build
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache _trial_temp*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f twisted/plugins/dropin.cache

# -- set-up ---------------------------------------------------------------------------

$(VENV)/run.stamp: $(INSTALLED_FROM) $(VENV)/made.stamp
	@echo 'Installing metatwist into $(VENV) ...'
	@$(INSTALL) -e '.[speed]'
	@touch $@

$(VENV)/dev.stamp: $(INSTALLED_FROM) $(VENV)/made.stamp
	@echo 'Installing metatwist and its development tools into $(VENV) ...'
	@$(INSTALL) -e '.[speed,dev]'
	@touch $(VENV)/run.stamp $@

$(VENV)/made.stamp:
	@found= bare=; \
	for python in $(PYTHON); do \
	    "$$python" -c "$$IS_RECENT" 2>/dev/null || continue; \
	    if "$$python" -c 'import ensurepip, venv' 2>/dev/null; \
	    then found=$$python; break; else bare=$${bare:-$$python}; fi; \
	done; \
	if [ -z "$$found" ] && [ -n "$$bare" ]; then \
	    version=$$("$$bare" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	    echo "make: $$bare has no venv module. On Debian and Ubuntu it comes with:" \
	        "apt install python$$version-venv" >&2; exit 1; \
	elif [ -z "$$found" ]; then \
	    echo "make: no Python 3.10 or later found (tried: $(PYTHON))." \
	        "Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version) ..."; \
	"$$found" -m venv --clear $(VENV)
	@$(PY) -m pip --disable-pip-version-check install --quiet 'pip>=22.1'
	@touch $@

define IS_RECENT
import sys
sys.exit(sys.version_info < (3, 10))
endef
export IS_RECENT

define PORT_IS_FREE
import socket, sys
for name, port in ("PORT", $(PORT)), ("ZOOKEEPER_PORT", $(ZOOKEEPER_PORT)):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            sys.exit("make: port %d: %s. Stop what listens there, or take another port:"
                     " make run %s=%d" % (port, error.strerror, name, port + 1000))
endef
export PORT_IS_FREE

define WHAT_NEXT

A broker starts on 127.0.0.1:$(PORT), with a topic `test` of 4 partitions in ./data,
and beside it what its clients need of a ZooKeeper, on 127.0.0.1:$(ZOOKEEPER_PORT).
Once it says that it listens, try in another terminal, in this directory:

  a first message, put and read back:
    $(PY) -c "import socket; s = socket.create_connection(('127.0.0.1', $(PORT))); s.sendall(b'put test 0 5 0 1\r\nhelloget test me 0 0 99 2\r\nquit\r\n'); print(s.makefile('b').read())"
  how it is doing:
    $(VENV)/bin/metatwist admin status
  stop it:
    Ctrl-C here, or  $(VENV)/bin/metatwist admin stop

Java clients find it with zkConnect 127.0.0.1:$(ZOOKEEPER_PORT); others connect to
127.0.0.1:$(PORT). Documentation: docs/index.md
A configuration to start from: conf/server.ini

endef
export WHAT_NEXT
