//! Names for addresses: finds the functions whose code is at an address at certain ticks, with file and line.
//!
//! An address is looked up in two steps: a [`Timeline`] of the run's module lines finds the module that had the address
//! at the ticks of the record. [`Symbols`] finds that module's file and its debug information, and answers with
//! [`Frame`]s, the innermost inlined function first, and with the source of the answer.
//!
//! | file | contents |
//! |---|---|
//! | `answer` | the answer for an address, and the kinds of lookups |
//! | `timeline` | the module that has an address at certain ticks |
//! | `files` | the mapped files, kept as long as names are needed |
//! | `cost` | the memory that debug information would take |
//! | `demangle` | the names of symbols as people write them |
//! | `symbol_table` | the functions of a file's symbol table |
//! | `indirect_functions` | jumps to functions whose implementation is chosen while the program is loaded |
//! | `find_files` | the search for the module's file, and for the file that has its debug information |
//! | `build_ids` | the build-ids of the files in directories that the user has named |
//! | `mini_debug` | the symbols that a stripped file has, compressed |
//! | `debug_info` | the functions, files and lines of debug information |
//! | `pdb` | the functions, files and lines of Windows' PDB files; `no_pdb` replaces it without the feature `names` |
//! | `user_frames` | the part of a call stack that a user wants to see |
//! | `module_symbols` | names for the addresses of many modules, each file opened when it is needed |
//!
//! A file is trusted only if it has the module's build-id: no name for an address is better than a name from another
//! build. Files may be damaged or hostile: whatever their contents are, each lookup has an answer, and the characters
//! of names cannot control a terminal.

mod answer;
mod build_ids;
mod cost;
mod debug_info;
mod demangle;
mod files;
mod find_files;
mod indirect_functions;
mod mini_debug;
mod module_symbols;
#[cfg(feature = "names")]
mod pdb;
#[cfg(not(feature = "names"))]
#[path = "no_pdb.rs"]
mod pdb;
mod symbol_table;
mod timeline;
mod user_frames;

pub use self::answer::{Answer, Frame, Lookup, Source, Unnamed};
pub use self::files::Files;
pub use self::find_files::Settings;
pub(crate) use self::find_files::file_name;
pub use self::module_symbols::Symbols;
pub use self::timeline::{ModuleLine, Timeline};
pub use self::user_frames::{StackFunction, shown_functions};
