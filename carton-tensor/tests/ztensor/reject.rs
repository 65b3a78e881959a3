//! Files that break one rule each.
