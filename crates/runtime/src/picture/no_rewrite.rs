//! Pictures without the feature `images`: their first bytes decide, and none is rewritten.

use imagesize::ImageType;

use super::{FittedPicture, PictureFitError, PictureLimits};

/// Accepts a picture that the server takes as it is. A BMP picture is accepted, too: some servers take it, and a server
/// that refuses it is sent the next request without it.
pub(super) fn fit(content: &[u8], limits: PictureLimits) -> Result<FittedPicture, PictureFitError> {
    let media_type = match imagesize::image_type(content) {
        Ok(ImageType::Png) => "image/png",
        Ok(ImageType::Jpeg) => "image/jpeg",
        Ok(ImageType::Gif) => "image/gif",
        Ok(ImageType::Webp) => "image/webp",
        Ok(ImageType::Bmp) => "image/bmp",
        _ => return Err(PictureFitError::Unknown),
    };
    let size = super::size(content)?;
    let (width, height) =
        size.ok_or_else(|| PictureFitError::Damaged("its size cannot be read".to_owned()))?;
    if !limits.admits((width, height), content.len()) {
        return Err(PictureFitError::Incompressible);
    }
    Ok(FittedPicture { media_type, rewritten: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PictureLimits = PictureLimits { max_side: 100, max_pixels: 10_000, max_bytes: 64 };

    fn gif(width: u16, height: u16) -> Vec<u8> {
        [b"GIF89a", &width.to_le_bytes()[..], &height.to_le_bytes(), &[0, 0, 0], b";"].concat()
    }

    #[test]
    fn a_picture_within_the_limits_is_sent_as_it_is() {
        let accepted = |media_type| Ok(FittedPicture { media_type, rewritten: None });
        assert_eq!(fit(&gif(100, 40), LIMITS), accepted("image/gif"));
        let png =
            [&b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..], &[0, 0, 0, 9, 0, 0, 0, 7, 8, 2, 0, 0, 0]].concat();
        assert_eq!(fit(&png, LIMITS), accepted("image/png"));
    }

    #[test]
    fn any_other_picture_is_left_out() {
        assert_eq!(fit(&gif(101, 1), LIMITS), Err(PictureFitError::Incompressible));
        assert_eq!(fit(&gif(1, 101), LIMITS), Err(PictureFitError::Incompressible));
        let long = [gif(1, 1), vec![0; 64]].concat();
        assert_eq!(fit(&long, LIMITS), Err(PictureFitError::Incompressible));
        assert!(matches!(fit(&gif(60_000, 1), LIMITS), Err(PictureFitError::TooLarge(_))));
        assert!(matches!(fit(b"\xFF\xD8\xFF\xE0\0\x10JFIF\0\x01", LIMITS), Err(PictureFitError::Damaged(_))));
        assert_eq!(fit(b"no picture", LIMITS), Err(PictureFitError::Unknown));
        assert_eq!(fit(b"", LIMITS), Err(PictureFitError::Unknown));
    }
}
