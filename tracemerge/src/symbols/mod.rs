//! Names for addresses: from ticks and an address to the functions that the code there is of, with file and
//! line.
//!
//! The way of an address: a [`Timeline`] of the run's module lines tells which module it was of at its ticks;
//! [`Symbols`] finds that module's file and its debug information, and answers with [`Frame`]s, the innermost
//! inlined function first, and with what is behind the answer.
//!
//! | file | what is in it |
//! |---|---|
//! | `answer` | what is answered, and the way in which it is asked |
//! | `timeline` | which module an address is of, at which ticks |
//! | `files` | the files that are mapped, as long as names are asked for |
//! | `cost` | what debug information would take in memory |
//! | `demangle` | the names of symbols as people write them |
//! | `symbol_table` | the functions of a file's symbol table |
//! | `find_files` | which file is the module's, and which has its debug information |
//! | `debug_info` | the functions, files and lines of debug information |
//! | `pdb` | the same of Windows' separate files; without the feature `names`, `no_pdb` stands in its place |
//! | `of_modules` | names for the addresses of many modules, each file opened when it is asked for |
//!
//! A file is believed only if it has the module's build-id: an address without a name is better than one with
//! the name of another build. Files may be damaged or hostile: whatever is in them, an answer comes, and the
//! characters of names drive no terminal.

mod answer;
mod cost;
mod debug_info;
mod demangle;
mod files;
mod find_files;
mod of_modules;
#[cfg(feature = "names")]
mod pdb;
#[cfg(not(feature = "names"))]
#[path = "no_pdb.rs"]
mod pdb;
mod symbol_table;
mod timeline;

pub use self::answer::{Answer, Frame, Lookup, Source, Unnamed};
pub use self::files::Files;
pub use self::find_files::Settings;
pub use self::of_modules::Symbols;
pub use self::timeline::{ModuleLine, Timeline};
