//! What the user is told, and how it looks: messages and the exit status, colours, tables, amounts.

pub mod colour;
pub mod columns;
pub mod error;
pub mod few;
pub mod messages;
pub mod units;
