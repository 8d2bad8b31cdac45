``twistd metaq`` serves ``put``, ``get``, ``offset``, ``stats``, ``version`` and ``quit`` of the MetaQ 1.4 protocol to unmodified clients.
