//! Decompression of answers, for servers with compression against the request.

use longhaul_wire::edit::{GatewayError, GatewayErrorKind};
#[cfg(feature = "compression")]
use std::io::{self, Write};

use bytes::Bytes;
#[cfg(feature = "compression")]
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use reqwest::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};

/// The number of bytes to decompress at a time: a few bytes can expand a thousandfold.
#[cfg(feature = "compression")]
const AT_ONCE_BYTES: usize = 4_096;

/// The largest expanded size of a piece of an answer, in bytes.
#[cfg(feature = "compression")]
const MOST_BYTES: usize = 32 << 20;

/// The number of characters of a coding's name in an error.
const MAX_NAME_CHARS: usize = 80;

/// The coding of a body. Without the Cargo feature `compression` there is none.
#[derive(Debug)]
#[non_exhaustive]
pub enum BodyDecompressor {
    /// `gzip`.
    #[cfg(feature = "compression")]
    Gzip(MultiGzDecoder<Vec<u8>>),
    /// `deflate`.
    #[cfg(feature = "compression")]
    Deflate(ZlibDecoder<Vec<u8>>),
}

/// An error of a body with an unreadable coding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ContentCodingError(String);

impl BodyDecompressor {
    /// Returns the decompressor of a body; `None` for a plain body.
    ///
    /// # Errors
    /// [`ContentCodingError`] for an unreadable coding.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, ContentCodingError> {
        // Two headers mean the same as one header with a list (RFC 9110, 5.3).
        let lists = headers.get_all(CONTENT_ENCODING).into_iter().map(HeaderValue::as_bytes);
        let names: Vec<String> = lists
            .flat_map(|list| list.split(|byte| *byte == b','))
            .map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase())
            .filter(|name| !name.is_empty() && name != "identity")
            .collect();
        match names.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => Ok(None),
            // A gzip body may have several members (RFC 1952).
            #[cfg(feature = "compression")]
            ["gzip" | "x-gzip"] => Ok(Some(Self::Gzip(MultiGzDecoder::new(Vec::new())))),
            // HTTP's `deflate` means the zlib format and not bare DEFLATE (RFC 9110, 8.4.1.2).
            #[cfg(feature = "compression")]
            ["deflate"] => Ok(Some(Self::Deflate(ZlibDecoder::new(Vec::new())))),
            _ => {
                let names: String = names.join(", ").chars().take(MAX_NAME_CHARS).collect();
                let remedy = if cfg!(feature = "compression") {
                    ""
                } else {
                    " without the Cargo feature `compression`"
                };
                Err(ContentCodingError(format!(
                    "the upstream's answer is coded as `{names}`, which was not asked for and cannot be read{remedy}"
                )))
            }
        }
    }

    /// Decompresses more bytes, as far as the content is complete.
    ///
    /// # Errors
    /// [`ContentCodingError`] if the bytes have another coding.
    #[cfg(not(feature = "compression"))]
    pub fn decode(&mut self, _coded: &[u8]) -> Result<Bytes, ContentCodingError> {
        match *self {}
    }

    /// Decompresses more bytes, as far as the content is complete.
    ///
    /// # Errors
    /// [`ContentCodingError`] if the bytes have another coding.
    #[cfg(feature = "compression")]
    pub fn decode(&mut self, coded: &[u8]) -> Result<Bytes, ContentCodingError> {
        let plain = match self {
            // The decoder's buffer is emptied each time, so the limit in `write` is for one piece and not for the
            // answer.
            Self::Gzip(decoder) => write(decoder, coded, |decoder| decoder.get_ref().len())
                .map(|()| std::mem::take(decoder.get_mut())),
            Self::Deflate(decoder) => write(decoder, coded, |decoder| decoder.get_ref().len())
                .map(|()| std::mem::take(decoder.get_mut())),
        };
        plain.map(Bytes::from).map_err(|error| {
            ContentCodingError(format!("the upstream's answer is not coded as its head says: {error}"))
        })
    }
}

impl From<ContentCodingError> for GatewayError {
    fn from(coding: ContentCodingError) -> Self {
        Self::new(GatewayErrorKind::Upstream, coding.to_string())
    }
}

#[cfg(feature = "compression")]
fn write<W: Write>(decoder: &mut W, coded: &[u8], unpacked: impl Fn(&W) -> usize) -> io::Result<()> {
    // The size is known only after a piece was unpacked. Small pieces keep the overshoot small.
    for piece in coded.chunks(AT_ONCE_BYTES) {
        decoder.write_all(piece)?;
        if unpacked(decoder) > MOST_BYTES {
            return Err(io::Error::other(format!("a piece of it stands for more than {MOST_BYTES} bytes")));
        }
    }
    // Without the flush an event that has arrived could stay inside the decoder.
    decoder.flush()
}

#[cfg(test)]
#[cfg(feature = "compression")]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: usize) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![b'a'; bytes]).unwrap();
        encoder.finish().unwrap()
    }

    fn coding() -> BodyDecompressor {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        BodyDecompressor::of(&headers).unwrap().unwrap()
    }

    #[test]
    fn a_few_bytes_that_stand_for_very_many_are_refused_before_they_are_unpacked() {
        assert_eq!(coding().decode(&packed(1 << 20)).unwrap().len(), 1 << 20);
        let mut coding = coding();
        let refused = coding.decode(&packed(256 << 20)).unwrap_err();
        assert!(refused.to_string().contains("stands for more than"), "{refused}");
        let BodyDecompressor::Gzip(decoder) = &coding else { panic!("it is gzip") };
        assert!(decoder.get_ref().len() < 64 << 20, "{}", decoder.get_ref().len());
    }
}
