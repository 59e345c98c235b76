//! The format Apache Parquet: a directory of tables.

#[cfg(feature = "parquet")]
mod chunk;
#[cfg(feature = "parquet")]
pub(crate) mod dataset;
#[cfg(feature = "parquet")]
mod hybrid;
#[cfg(feature = "parquet")]
pub(crate) mod rewrite;
#[cfg(feature = "parquet")]
pub(crate) mod schema;
#[cfg(feature = "parquet")]
pub(crate) mod subjects;
#[cfg(feature = "parquet")]
mod table;
#[cfg(feature = "parquet")]
mod tables;
#[cfg(feature = "parquet")]
mod words;

use crate::view::export::format::{OutputContent, OutputFormat};

/// The description of the format `parquet` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "parquet",
    about: "A directory of tables in Parquet, for DuckDB and others",
    extension: "parquet",
    content: OutputContent::Directory,
    nests_calls: false,
    times_of_day: true,
    takes_states: false,
    begins: |_| false,
    #[cfg(feature = "parquet")]
    make: Some(crate::view::export::format::export_events::<tables::ParquetFormat>),
    #[cfg(not(feature = "parquet"))]
    make: None,
};
