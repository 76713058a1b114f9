//! Pages generated from the tables.
