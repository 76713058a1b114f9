//! HTTP/1.1 response framing, incremental.
