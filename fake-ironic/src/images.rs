//! (its story is being written)
