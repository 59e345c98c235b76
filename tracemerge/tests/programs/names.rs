//! A program with generic, inlined, nested and dropping functions. The test `names_agree_with_addr2line` compiles this
//! program in many ways, and looks up the names of its functions.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::hint::black_box;

struct Account {
    owner: String,
    cents: i64,
}

impl Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.owner, self.cents)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        black_box(self.cents);
    }
}

trait Booked {
    fn book(&mut self, cents: i64) -> i64;
    fn twice(&mut self, cents: i64) -> i64 {
        self.book(cents) + self.book(cents)
    }
}

impl Booked for Account {
    #[inline(never)]
    fn book(&mut self, cents: i64) -> i64 {
        self.cents = checked(self.cents, cents);
        self.cents
    }
}

#[inline(always)]
fn checked(a: i64, b: i64) -> i64 {
    added(a, b).unwrap_or_else(|| overflowed(a))
}

#[inline(always)]
fn added(a: i64, b: i64) -> Option<i64> {
    black_box(a).checked_add(black_box(b))
}

#[cold]
#[inline(never)]
fn overflowed(a: i64) -> i64 {
    eprintln!("an account of {a} is full");
    i64::MAX
}

#[inline(never)]
fn sorted<T: Ord + Clone, K: Fn(&T) -> u64>(items: &[T], key: K) -> Vec<T> {
    let mut items = items.to_vec();
    items.sort_by_key(|item| key(item));
    items
}

// Two functions with the same machine code, which LLVM may merge.
#[inline(never)]
pub fn first_of_two(n: u64) -> u64 {
    black_box(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7)
}

#[inline(never)]
pub fn second_of_two(n: u64) -> u64 {
    black_box(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7)
}

mod inner {
    #[inline(never)]
    pub fn fails(n: usize) -> Result<usize, String> {
        let part = |at: usize| -> Result<usize, String> {
            if at > 3 { Err(format!("{at} is too much")) } else { Ok(at * 2) }
        };
        (0..n).try_fold(0, |sum, at| Ok(sum + part(at)?))
    }
}

fn main() {
    let mut accounts = BTreeMap::new();
    for (number, owner) in ["ada", "bob", "eve"].into_iter().enumerate() {
        let mut account = Account { owner: owner.to_owned(), cents: 5 };
        account.twice(number as i64);
        accounts.insert(owner, account);
    }
    let names: Vec<String> = accounts.values().map(ToString::to_string).collect();
    println!("{:?}", sorted(&names, |name| name.len() as u64));
    println!("{:?}", sorted(&[3u8, 1, 2], |n| u64::from(*n)));
    println!("{} {} {:?}", first_of_two(7), second_of_two(8), inner::fails(black_box(3)));
    let caught = std::panic::catch_unwind(|| black_box(Vec::<u8>::new())[0]);
    println!("{}", caught.is_err());
}
