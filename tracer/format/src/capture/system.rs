//! Captures of durations, times, network addresses, and names of the operating system.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::builtin::transparent;
use super::descriptor as d;
use super::signature::Signature;
use super::{Capture, Cursor, TOO_LONG, by};

impl<By: by::OfDebug> Capture<By> for Duration {
    const SIGNATURE: u32 = Signature::of(d::DURATION).end();
    const SIZE: Option<usize> = Some(12);

    fn describe(descriptor: &mut Vec<u8>) {
        descriptor.push(d::DURATION);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        12
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        to.put(self.as_secs().to_le_bytes());
        to.put(self.subsec_nanos().to_le_bytes());
    }
}

/// Captures of `SystemTime` on Unix, where std prints it as a struct of two numbers. On other systems, a message with
/// such a time is formatted at the call.
#[cfg(unix)]
mod time {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::super::signature::Signature;
    use super::super::{Capture, Cursor, by, descriptor as d};

    impl Capture<by::Debug> for SystemTime {
        const SIGNATURE: u32 = Signature::of_named("SystemTime", 2)
            .name("tv_sec")
            .part(<i64 as Capture<by::Debug>>::SIGNATURE)
            .name("tv_nsec")
            .part(<u32 as Capture<by::Debug>>::SIGNATURE)
            .end();
        const SIZE: Option<usize> = Some(12);

        fn describe(descriptor: &mut Vec<u8>) {
            d::named(descriptor, "SystemTime", 2);
            d::name(descriptor, "tv_sec");
            <i64 as Capture<by::Debug>>::describe(descriptor);
            d::name(descriptor, "tv_nsec");
            <u32 as Capture<by::Debug>>::describe(descriptor);
        }

        #[inline(always)]
        fn size(&self) -> usize {
            12
        }

        #[inline(always)]
        fn write(&self, to: &mut Cursor<'_>) {
            let (seconds, nanoseconds) = match self.duration_since(UNIX_EPOCH) {
                Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
                Err(error) => before(error.duration()),
            };
            to.put(seconds.to_le_bytes());
            to.put(nanoseconds.to_le_bytes());
        }
    }

    /// Returns the time that is `duration` before 1970: the seconds since 1970, rounded down, and the nanoseconds.
    #[cold]
    fn before(duration: Duration) -> (i64, u32) {
        let seconds = 0u64.wrapping_sub(duration.as_secs()) as i64;
        match duration.subsec_nanos() {
            0 => (seconds, 0),
            nanoseconds => (seconds.wrapping_sub(1), 1_000_000_000 - nanoseconds),
        }
    }
}

/// Implements [`Capture`] for types of network addresses. `$put` writes the value, `$bytes` is the number of its bytes,
/// and `$size` is this number if it is the same for all values of the type.
macro_rules! addresses {
    ($($type:ty: $tag:expr, $size:expr, $value:ident => $bytes:expr, $to:ident => $put:expr;)*) => { $(
        impl<By: by::OfText> Capture<By> for $type {
            const SIGNATURE: u32 = Signature::of($tag).end();
            const SIZE: Option<usize> = $size;

            fn describe(descriptor: &mut Vec<u8>) {
                descriptor.push($tag);
            }

            #[inline(always)]
            fn size(&self) -> usize {
                let $value = self;
                $bytes
            }

            #[inline(always)]
            fn write(&self, $to: &mut Cursor<'_>) {
                let $value = self;
                $put;
            }
        }
    )* };
}

addresses! {
    Ipv4Addr: d::IP, Some(5), _ip => 5, to => put_ipv4(*_ip, to);
    Ipv6Addr: d::IP, Some(17), _ip => 17, to => put_ipv6(*_ip, to);
    IpAddr: d::IP, None, ip => if ip.is_ipv4() { 5 } else { 17 }, to => match ip {
        IpAddr::V4(ip) => put_ipv4(*ip, to),
        IpAddr::V6(ip) => put_ipv6(*ip, to),
    };
    SocketAddrV4: d::SOCKET, Some(7), _socket => 7, to => put_socket_v4(_socket, to);
    SocketAddrV6: d::SOCKET, Some(27), _socket => 27, to => put_socket_v6(_socket, to);
    SocketAddr: d::SOCKET, None, socket => if socket.is_ipv4() { 7 } else { 27 }, to => match socket {
        SocketAddr::V4(socket) => put_socket_v4(socket, to),
        SocketAddr::V6(socket) => put_socket_v6(socket, to),
    };
}

#[inline(always)]
fn put_ipv4(ip: Ipv4Addr, to: &mut Cursor<'_>) {
    to.put([4]);
    to.put(ip.octets());
}

#[inline(always)]
fn put_ipv6(ip: Ipv6Addr, to: &mut Cursor<'_>) {
    to.put([6]);
    to.put(ip.octets());
}

#[inline(always)]
fn put_socket_v4(socket: &SocketAddrV4, to: &mut Cursor<'_>) {
    put_ipv4(*socket.ip(), to);
    to.put(socket.port().to_le_bytes());
}

#[inline(always)]
fn put_socket_v6(socket: &SocketAddrV6, to: &mut Cursor<'_>) {
    put_ipv6(*socket.ip(), to);
    to.put(socket.port().to_le_bytes());
    to.put(socket.flowinfo().to_le_bytes());
    to.put(socket.scope_id().to_le_bytes());
}

/// A name of the operating system, captured if std prints it like a `str`: if it is Unicode and has no `'`, which some
/// versions of std escape in names. A message with any other name is formatted at the call.
impl<By: by::OfDebug> Capture<By> for OsStr {
    const SIGNATURE: u32 = <str as Capture<by::Debug>>::SIGNATURE;

    fn describe(descriptor: &mut Vec<u8>) {
        <str as Capture<by::Debug>>::describe(descriptor);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        match self.to_str() {
            Some(text) if !text.as_bytes().contains(&b'\'') => Capture::<by::Debug>::size(text),
            _ => TOO_LONG,
        }
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        // `size` has seen that it is Unicode, and these are the bytes of the text then.
        let bytes = self.as_encoded_bytes();
        to.put_length(bytes.len());
        to.put_slice(bytes);
    }
}

transparent! {
    [By: by::OfDebug] By, OsString => OsStr, value => value;
    [By: by::OfDebug] By, Path => OsStr, value => value.as_os_str();
    [By: by::OfDebug] By, PathBuf => OsStr, value => value.as_os_str();
    [By: by::OfDebug] By, Cow<'_, OsStr> => OsStr, value => value;
    [By: by::OfDebug] By, Cow<'_, Path> => OsStr, value => value.as_os_str();
}
