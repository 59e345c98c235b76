//! The replacement of the module `pdb` in a command that is built without the feature `names`: separate debug
//! information of Windows (PDB) is not searched.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::symbols::answer::Frame;
use crate::symbols::files::Files;
use crate::symbols::find_files::{Found, Settings};

/// The type for the separate debug information of a Windows program, of which no value exists.
pub(super) struct Pdb<'f>(Infallible, PhantomData<&'f ()>);

impl<'f> Pdb<'f> {
    /// Returns no debug information and no warning: no file is searched.
    pub(super) fn of(_: &Found<'f>, _: &Settings, _: &'f Files) -> (Option<Pdb<'f>>, Option<String>) {
        (None, None)
    }

    /// Is never called, because no value of this type exists.
    pub(super) fn frames(&self, _: u64) -> Result<Vec<Frame>, Infallible> {
        match self.0 {}
    }
}
