"""A conformance script for ZooKeeper servers, run by kazoo and by raw frames.

`run(address)` plays all scenes against a server and answers a transcript that is the
same for every server that behaves as ZooKeeper does: what differs from run to run
(zxids, session ids, times) is noted as relations only.

    python -m tests.interop.zookeeper_script 127.0.0.1:2181
"""
