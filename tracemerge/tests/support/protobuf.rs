//! A small reader of protocol buffers, which shares nothing with their writer.

/// A field of a message: a number, or bytes.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, by their numbers.
pub struct Message<'a>(pub Vec<(u64, Field<'a>)>);

impl<'a> Message<'a> {
    pub fn read(mut bytes: &'a [u8]) -> Message<'a> {
        let mut fields = Vec::new();
        let varint = |bytes: &mut &'a [u8]| {
            let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
            let digits = bytes[..=end].iter().rev();
            let number = digits.fold(0u64, |number, byte| number << 7 | u64::from(byte & 0x7f));
            *bytes = &bytes[end + 1..];
            number
        };
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let field = match tag & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => {
                    let (number, rest) = bytes.split_first_chunk().unwrap();
                    bytes = rest;
                    Field::Number(u64::from_le_bytes(*number))
                }
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (message, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(message)
                }
                other => panic!("wire type {other}"),
            };
            fields.push((tag >> 3, field));
        }
        Message(fields)
    }

    pub fn all(&self, number: u64) -> impl Iterator<Item = Field<'a>> {
        self.0.iter().filter(move |(field, _)| *field == number).map(|(_, field)| *field)
    }

    pub fn number(&self, number: u64) -> Option<u64> {
        self.all(number).find_map(|field| if let Field::Number(found) = field { Some(found) } else { None })
    }

    pub fn messages(&self, number: u64) -> impl Iterator<Item = Message<'a>> {
        self.all(number).filter_map(|field| {
            if let Field::Bytes(bytes) = field { Some(Message::read(bytes)) } else { None }
        })
    }

    pub fn text(&self, number: u64) -> Option<String> {
        self.all(number).find_map(|field| match field {
            Field::Bytes(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
            Field::Number(_) => None,
        })
    }
}
