//! The project itself: its documents, the order of its modules, its examples, and what it installs.

mod an_installed_tracemerge_is_small;
mod documents_hold_together;
mod examples_trace_themselves;
mod folders_of_the_library_stand_in_order;
mod macros_can_be_compiled_out;
mod models_of_the_ring_hold_in_every_order;
mod modules_of_the_store_stand_in_order;
mod old_systems_can_load_what_has_the_tracer;
mod rooms_stand_in_order;
mod walls;
