//! The project itself: its documents, the order of its modules, its examples, and what it installs.

mod an_installed_tracemerge_is_small;
mod command_folders_are_layered;
mod documents_are_consistent;
mod examples_match_the_documents;
mod library_folders_are_layered;
mod macros_can_be_compiled_out;
mod old_systems_can_load_traced_programs;
mod ring_models_hold_in_every_order;
mod store_modules_are_layered;
mod walls;
