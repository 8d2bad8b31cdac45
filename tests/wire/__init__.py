"""The codec, without a socket."""
