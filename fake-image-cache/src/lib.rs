//! The flaky HTTP server that holds OS images and checksum files.
