//! A maker of raw files, which builds them by hand, word by word.

use trace_format::meta::Meta;
use trace_format::sites::Site;

/// Returns a raw file that has `metas`, each as the payload of a `#` line at its ticks, and then `messages`.
pub fn raw_file(
    tid: u64,
    metas: &[(u64, &Meta)],
    messages: impl IntoIterator<Item = (u64, String)>,
) -> Vec<u8> {
    let messages = messages.into_iter().map(|(ticks, text)| (ticks, 0, text));
    raw_file_of_sites(tid, metas, &[], messages)
}

/// Returns the same with sites, which its first block defines, and each message with the number of its site.
pub fn raw_file_of_sites(
    tid: u64,
    metas: &[(u64, &Meta)],
    sites: &[Site],
    messages: impl IntoIterator<Item = (u64, u32, String)>,
) -> Vec<u8> {
    let messages = messages.into_iter();
    let records = messages.map(|(ticks, site, text)| (2 | u64::from(site) << 32, ticks, text.into_bytes()));
    raw_file_of_records(tid, metas, sites, records)
}

/// Returns the same with records of any kind: word 0 without its length, the ticks, and the payload.
pub fn raw_file_of_records(
    tid: u64,
    metas: &[(u64, &Meta)],
    sites: &[Site],
    records: impl IntoIterator<Item = (u64, u64, Vec<u8>)>,
) -> Vec<u8> {
    const BLOCK: usize = 256 << 10;
    let mut bytes = Vec::new();
    let mut put = |kind: u64, ticks: u64, payload: &[u8]| {
        let length = 16 + payload.len().next_multiple_of(8);
        if bytes.len() % BLOCK != 0 && bytes.len() % BLOCK + length > BLOCK {
            if bytes.len() % BLOCK != 0 {
                bytes.extend_from_slice(&1u64.to_le_bytes());
            }
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        if bytes.len() % BLOCK == 0 {
            bytes.extend_from_slice(b"TRCRAW1\n");
            bytes.extend_from_slice(&tid.to_le_bytes());
        }
        bytes.extend_from_slice(&(kind | (payload.len() as u64) << 16).to_le_bytes());
        bytes.extend_from_slice(&ticks.to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    };
    for (ticks, meta) in metas {
        let mut payload = Vec::new();
        meta.write(&mut payload);
        put(7, *ticks, &payload);
    }
    for site in sites {
        let mut entry = Vec::new();
        site.write(&mut entry);
        put(8 | u64::from(site.id) << 32, 0, &entry);
    }
    for (word, ticks, payload) in records {
        put(word, ticks, &payload);
    }
    bytes
}
