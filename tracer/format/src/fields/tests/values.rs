//! Random values to format; values at the edges are more frequent.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A source of random values: SplitMix64.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut hash = self.0;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    pub(super) fn below(&mut self, range: Range<usize>) -> usize {
        range.start + (self.bits() % (range.len() as u64)) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(0..from.len())]
    }

    /// Returns an integer of any length, so that all numbers of digits occur.
    fn wide(&mut self) -> u128 {
        let bits = u128::from(self.bits()) << 64 | u128::from(self.bits());
        bits >> self.below(0..128)
    }
}

/// A type with random values.
pub(super) trait Drawn {
    fn draw(from: &mut Draw) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => { $(
        impl Drawn for $type {
            fn draw(from: &mut Draw) -> $type {
                match from.below(0..8) {
                    0 => from.pick(&[<$type>::MIN, <$type>::MAX, 0, 1, 9, 10, 99, 100]),
                    1 => (10 as $type).wrapping_pow(from.below(0..40) as u32).wrapping_sub(from.below(0..2) as $type),
                    2 | 3 => (0 as $type).wrapping_sub(from.wide() as $type),
                    _ => from.wide() as $type,
                }
            }
        }
    )* };
}

integers! { i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize }

macro_rules! floats {
    ($($type:ident $bits:ty;)*) => { $(
        impl Drawn for $type {
            fn draw(from: &mut Draw) -> $type {
                let sign = from.pick(&[1.0, -1.0]);
                let ten = |from: &mut Draw, range| (10.0 as $type).powi(from.below(range) as i32);
                sign * match from.below(0..11) {
                    0 => from.pick(&[
                        0.0, 1.0, 0.1, 0.5, 1.5, 2.5, 0.25, 0.125, 1e7, 1e15, 1e16, 1e17, 1e21, 1e-3, 1e-4, 1e-5, 1e-7,
                        9999999.5, 0.3, 123456.0, 999999.9, 9.5, 99.95,
                        $type::MIN_POSITIVE, $type::MAX, $type::EPSILON, $type::NAN, $type::INFINITY,
                        $type::from_bits(1), $type::from_bits(0x000f_ffff),
                    ]),
                    // Any bits are drawn, subnormals too.
                    1 | 2 => $type::from_bits(from.bits() as $bits),
                    3 => $type::from_bits(from.wide() as $bits),
                    // Decimals of few digits are drawn, as people write them, and results of arithmetic with
                    // those.
                    4 | 5 => (from.wide() % 10_000_000) as $type / ten(from, 0..12),
                    6 => (from.wide() % 1_000_000) as $type * from.pick(&[0.5, 0.25, 0.1, 0.01, 1e-8, 1e-4, 3.0]),
                    // Binary fractions end in a 5, and so may lie in the middle between two decimals.
                    10 => (from.wide() % 100_000_000) as $type / (1u64 << from.below(0..20)) as $type,
                    // Neighbours of numbers where the notation changes are drawn.
                    7 => {
                        let near: $type = from.pick(&[1e-5, 1e-4, 1e-3, 1e7, 1e12, 1e13, 1e15, 1e16, 1e17]);
                        $type::from_bits(near.to_bits() + from.below(0..4) as $bits - 2)
                    }
                    8 => from.wide() as u64 as $type,
                    _ => (from.bits() >> 11) as $type / (1u64 << 53) as $type * ten(from, 0..18),
                }
            }
        }
    )* };
}

floats! { f32 u32; f64 u64; }

impl Drawn for bool {
    fn draw(from: &mut Draw) -> bool {
        from.bits() & 1 == 1
    }
}

impl Drawn for char {
    fn draw(from: &mut Draw) -> char {
        match from.below(0..4) {
            0 => from.pick(&[
                '\0',
                '\t',
                '\n',
                '\r',
                '\'',
                '"',
                '\\',
                '\x1b',
                '\x7f',
                '\u{80}',
                '\u{ad}',
                '\u{301}',
                '\u{200b}',
                '\u{d7ff}',
                '\u{e000}',
                '\u{ffff}',
                '\u{10000}',
                '\u{10ffff}',
                'é',
                '🦀',
                '你',
                '\u{feff}',
                '\u{202e}',
            ]),
            1 => char::from_u32(from.below(0..0x11_0000) as u32).unwrap_or('\u{fffd}'),
            _ => char::from(from.below(0x20..0x7f) as u8),
        }
    }
}

impl Drawn for String {
    fn draw(from: &mut Draw) -> String {
        let length = from.pick(&[0, 1, 2, 3, 5, 8, 20, 100]);
        let plain = from.bits() & 1 == 1;
        let letter = |_| if plain { char::from(from.below(0x20..0x7f) as u8) } else { char::draw(from) };
        (0..length).map(letter).collect()
    }
}

impl Drawn for Duration {
    fn draw(from: &mut Draw) -> Duration {
        let seconds = u64::draw(from);
        let nanoseconds = match from.below(0..4) {
            0 => {
                from.pick(&[0, 1, 500, 999, 1_500, 999_999, 2_500_000, 500_000_000, 999_500_000, 999_999_999])
            }
            1 => 0,
            _ => u32::draw(from) % 1_000_000_000,
        };
        Duration::new(from.pick(&[0, 0, 0, 1, 9, 10, 3_600, seconds]), nanoseconds)
    }
}

impl Drawn for SystemTime {
    fn draw(from: &mut Draw) -> SystemTime {
        let (epoch, difference) = (SystemTime::UNIX_EPOCH, Duration::draw(from));
        let drawn =
            if bool::draw(from) { epoch.checked_add(difference) } else { epoch.checked_sub(difference) };
        drawn.unwrap_or(epoch)
    }
}

impl Drawn for Ipv4Addr {
    fn draw(from: &mut Draw) -> Ipv4Addr {
        u32::draw(from).into()
    }
}

impl Drawn for Ipv6Addr {
    fn draw(from: &mut Draw) -> Ipv6Addr {
        match from.below(0..4) {
            0 => Ipv4Addr::draw(from).to_ipv6_mapped(),
            1 => u128::draw(from).into(),
            _ => <[u16; 8]>::draw(from).map(|segment| if segment & 1 == 0 { 0 } else { segment }).into(),
        }
    }
}

impl Drawn for IpAddr {
    fn draw(from: &mut Draw) -> IpAddr {
        if bool::draw(from) { Ipv4Addr::draw(from).into() } else { Ipv6Addr::draw(from).into() }
    }
}

impl Drawn for SocketAddrV4 {
    fn draw(from: &mut Draw) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::draw(from), u16::draw(from))
    }
}

impl Drawn for SocketAddrV6 {
    fn draw(from: &mut Draw) -> SocketAddrV6 {
        SocketAddrV6::new(Ipv6Addr::draw(from), u16::draw(from), u32::draw(from), u32::draw(from))
    }
}

impl Drawn for SocketAddr {
    fn draw(from: &mut Draw) -> SocketAddr {
        if bool::draw(from) { SocketAddrV4::draw(from).into() } else { SocketAddrV6::draw(from).into() }
    }
}

/// A name of the operating system that can be captured: it is Unicode and has no `'`.
impl Drawn for OsString {
    fn draw(from: &mut Draw) -> OsString {
        String::draw(from).replace('\'', "/").into()
    }
}

impl Drawn for PathBuf {
    fn draw(from: &mut Draw) -> PathBuf {
        OsString::draw(from).into()
    }
}

impl Drawn for () {
    fn draw(_: &mut Draw) {}
}

/// A pointer with a random address, which points to nothing.
impl Drawn for *const u8 {
    fn draw(from: &mut Draw) -> *const u8 {
        std::ptr::without_provenance(usize::draw(from))
    }
}

impl<T: Drawn> Drawn for Option<T> {
    fn draw(from: &mut Draw) -> Option<T> {
        bool::draw(from).then(|| T::draw(from))
    }
}

impl<T: Drawn, E: Drawn> Drawn for Result<T, E> {
    fn draw(from: &mut Draw) -> Result<T, E> {
        if bool::draw(from) { Ok(T::draw(from)) } else { Err(E::draw(from)) }
    }
}

impl<T: Drawn> Drawn for Vec<T> {
    fn draw(from: &mut Draw) -> Vec<T> {
        (0..from.pick(&[0, 1, 2, 5])).map(|_| T::draw(from)).collect()
    }
}

impl<T: Drawn, const N: usize> Drawn for [T; N] {
    fn draw(from: &mut Draw) -> [T; N] {
        std::array::from_fn(|_| T::draw(from))
    }
}

macro_rules! tuples {
    ($($($type:ident)*;)*) => { $(
        impl<$($type: Drawn),*> Drawn for ($($type,)*) {
            fn draw(from: &mut Draw) -> ($($type,)*) {
                ($($type::draw(from),)*)
            }
        }
    )* };
}

tuples! { A; A B; A B C; A B C D; A B C D E F G H I J K L; }
