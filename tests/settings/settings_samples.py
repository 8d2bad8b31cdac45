"""Configuration files and small helpers that the settings tests share."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from metatwist.broker.settings import BrokerSettings, load_settings
from metatwist.errors import SettingsError

_HERE = re.compile(r"[^\s(]*/conf/")

SYSTEM = """\
[system]
brokerId=0
numPartitions=1
unflushThreshold=0
unflushInterval=10000
maxSegmentSize=1024*1024*1024
maxTransferSize=1048576
"""

MINIMAL = f"""\
{SYSTEM}[zookeeper]
zk.zkConnect=localhost:2181
[topic=test]
"""

SHIPPED = """\
[system]
brokerId=0
serverPort=8123
dashboardHttpPort=8120
numPartitions=1
unflushThreshold=0
unflushInterval=10000
maxSegmentSize=1024*1024*1024
maxTransferSize=1024*1024
deletePolicy=delete,168
deleteWhen=0 0 6,18 * * ?
flushTxLogAtCommit=1
stat=true
updateConsumerOffsets=true

[zookeeper]
zk.zkConnect=localhost:2181
zk.zkSessionTimeoutMs=30000
zk.zkConnectionTimeoutMs=30000
zk.zkSyncTimeMs=5000

;; Topics section
[topic=test]
[topic=meta-test]
"""

COMMENTED = f"""\
; 服务器配置示例
{SYSTEM}
; 数据文件存放路径, 例如
dataPath=/srv/数据
# 联通
[zookeeper]
zk.zkConnect=localhost:2181
[topic=test]
; 是否启用实时统计
stat=TRUE
"""


def load(text: str | bytes, environ: Mapping[str, str] | None = None) -> BrokerSettings:
    """Load `text` from a file `conf/server.ini` in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "conf" / "server.ini"
        path.parent.mkdir()
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_settings(path, {"HOME": "/home/meta", **(environ or {})})


def problems(text: str | bytes, environ: Mapping[str, str] | None = None) -> list[str]:
    """The problems of `text`, each without the directory in front."""
    try:
        load(text, environ)
    except SettingsError as error:
        return [_HERE.sub("", problem) for problem in error.problems]
    raise AssertionError("the file loaded without a problem")


def notes(settings: BrokerSettings) -> list[str]:
    """The warnings, each without the directory in front."""
    return [_HERE.sub("", warning) for warning in settings.warnings]
