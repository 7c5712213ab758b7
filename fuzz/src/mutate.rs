//! Inputs made worse, the same ones for the same seed.

/// What breaks readers of text and JSON.
const PIECES: &[&[u8]] = &[
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"-0",
    b"1e999",
    b"-1",
    b"18446744073709551616",
    b"0.1",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00\\ud83d",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\0",
    b"\n\n",
    b"\r\n",
    b"\r",
    b"data: ",
    b"data:[DONE]\n\n",
    b"event: error\n",
    b": ",
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b"lh:1-18446744073709551615",
    b"&a",
    b"*a",
    b"!!binary ",
    b"<<: ",
    b"- ",
    b"? ",
    b"|\n",
    b"\xe2\x80\xa8",
    b"\xf0\x9f\x98\x80",
];

/// A sequence of numbers (xorshift64*).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Another sequence for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
        if end == 0 { 0 } else { (number % end as u64) as usize }
    }
}

/// A worse form of one of the seeds.
pub fn worse(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut input = seeds.get(dice.below(seeds.len())).cloned().unwrap_or_default();
    for _ in 0..=dice.below(6) {
        change(&mut input, seeds, dice);
    }
    input
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut Dice) {
    let (at, length) = (dice.below(input.len() + 1), input.len());
    let end = (at + dice.below(40)).min(length);
    match dice.below(9) {
        0 if at < length => input[at] ^= 1 << dice.below(8),
        1 if at < length => input[at] = dice.below(256) as u8,
        2 => drop(input.drain(at..end)),
        3 => {
            let again = input[at..end].to_vec();
            let copies = again.repeat(1 + dice.below(4));
            input.splice(at..at, copies);
        }
        4 => input.truncate(at),
        5 => {
            let open = [&b"["[..], b"{\"a\":", b"[{\"a\":", b"{a: ", b"- "][dice.below(5)];
            let deep = open.repeat([3, 130, 3_000][dice.below(3)]);
            input.splice(at..end, deep);
        }
        6 => {
            let other = &seeds[dice.below(seeds.len())];
            let from = dice.below(other.len() + 1);
            let to = (from + dice.below(400)).min(other.len());
            input.splice(at..end, other[from..to].iter().copied());
        }
        7 => {
            // A value for another value: what is between quotes, or a word.
            let is_edge = |byte: &u8| b"\":,{}[] \n".contains(byte);
            let from = input[..at].iter().rposition(is_edge).map_or(0, |edge| edge + 1);
            let to = input[at..].iter().position(is_edge).map_or(length, |edge| at + edge);
            input.splice(from..to, PIECES[dice.below(PIECES.len())].iter().copied());
        }
        _ => drop(input.splice(at..at, PIECES[dice.below(PIECES.len())].iter().copied())),
    }
}
