//! Answers that come coded although they were asked for plain.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, HeaderValue, header};

use crate::wire::{Fault, FaultKind};

/// The coding of a body that is being read.
pub(super) enum Coding {
    Gzip(MultiGzDecoder<Vec<u8>>),
    Deflate(ZlibDecoder<Vec<u8>>),
}

impl Coding {
    /// `None` for a body that is plain.
    ///
    /// # Errors
    /// [`Fault`] for a coding that cannot be read.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Fault> {
        let lists = headers.get_all(header::CONTENT_ENCODING).into_iter().map(HeaderValue::as_bytes);
        let names: Vec<String> = lists
            .flat_map(|list| list.split(|byte| *byte == b','))
            .map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase())
            .filter(|name| !name.is_empty() && name != "identity")
            .collect();
        match names.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => Ok(None),
            ["gzip" | "x-gzip"] => Ok(Some(Self::Gzip(MultiGzDecoder::new(Vec::new())))),
            ["deflate"] => Ok(Some(Self::Deflate(ZlibDecoder::new(Vec::new())))),
            _ => {
                let names: String = names.join(", ").chars().take(80).collect();
                let message = format!(
                    "the upstream's answer is coded as `{names}`, which was not asked for and cannot be read"
                );
                Err(Fault::new(FaultKind::Upstream, message))
            }
        }
    }

    /// What more bytes say, as far as it is known.
    ///
    /// # Errors
    /// [`Fault`] if they are not so coded.
    pub(super) fn decode(&mut self, coded: &[u8]) -> Result<Bytes, Fault> {
        let plain = match self {
            Self::Gzip(decoder) => write(decoder, coded).map(|()| std::mem::take(decoder.get_mut())),
            Self::Deflate(decoder) => write(decoder, coded).map(|()| std::mem::take(decoder.get_mut())),
        };
        plain.map(Bytes::from).map_err(|error| {
            let message = format!("the upstream's answer is not coded as its head says: {error}");
            Fault::new(FaultKind::Upstream, message)
        })
    }
}

fn write(decoder: &mut impl Write, coded: &[u8]) -> io::Result<()> {
    decoder.write_all(coded)?;
    decoder.flush()
}
