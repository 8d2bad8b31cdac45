"""Meeting the released Java parts of MetaQ."""
