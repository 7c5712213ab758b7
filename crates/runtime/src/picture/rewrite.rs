//! Pictures decoded and rewritten: a damaged picture is found, and one that exceeds the limits is made smaller.

use std::io::Cursor;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageError, ImageFormat, ImageReader, Rgba};

use super::{FittedPicture, PictureFitError, PictureLimits};

/// The quality of a picture that is rewritten as JPEG, of 100.
const JPEG_QUALITY: u8 = 85;

/// The maximum memory for decoding one picture, in bytes: 100 million pixels of four bytes, and a little more.
const MAX_DECODED_BYTES: u64 = 512 << 20;

/// The number of times that a picture is made smaller to reduce its bytes.
const MAX_ATTEMPTS: u32 = 8;

/// Decodes a picture, and rewrites it if the server does not take it as it is.
pub(super) fn fit(content: &[u8], limits: PictureLimits) -> Result<FittedPicture, PictureFitError> {
    let format = image::guess_format(content).map_err(|_| PictureFitError::Unknown)?;
    let media_type = match format {
        ImageFormat::Png => "image/png",
        ImageFormat::Jpeg => "image/jpeg",
        ImageFormat::Gif => "image/gif",
        ImageFormat::WebP => "image/webp",
        ImageFormat::Bmp => "image/bmp",
        _ => return Err(PictureFitError::Unknown),
    };
    let size = super::size(content)?;
    // A damaged picture is only found by decoding all of it: its header may be whole.
    let picture = match decode(content, format) {
        Ok(picture) => picture,
        // The server may decode a whole picture that our decoder does not support.
        Err(ImageError::Unsupported(_)) if format != ImageFormat::Bmp => {
            return Ok(FittedPicture { media_type, rewritten: None });
        }
        Err(error) => return Err(PictureFitError::Damaged(error.to_string())),
    };
    let size = size.unwrap_or((picture.width(), picture.height()));
    let is_small = limits.admits(size, content.len());
    // Few servers take BMP, so such a picture is always rewritten.
    if is_small && format != ImageFormat::Bmp {
        return Ok(FittedPicture { media_type, rewritten: None });
    }
    shrink(picture, format, limits)
}

fn decode(content: &[u8], format: ImageFormat) -> Result<DynamicImage, ImageError> {
    let mut reader = ImageReader::with_format(Cursor::new(content), format);
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    reader.decode()
}

/// Rewrites a picture, smaller each time: as PNG if it was lossless and PNG is small enough, otherwise as JPEG.
fn shrink(
    picture: DynamicImage,
    format: ImageFormat,
    limits: PictureLimits,
) -> Result<FittedPicture, PictureFitError> {
    let longest = picture.width().max(picture.height());
    let mut side = longest.min(limits.max_side).min(side_within(&picture, limits.max_pixels));
    for _ in 0..MAX_ATTEMPTS {
        let smaller =
            if side < longest { picture.resize(side, side, FilterType::Triangle) } else { picture.clone() };
        let lossless = !matches!(format, ImageFormat::Jpeg);
        if lossless && let Some(written) = as_png(&smaller).filter(|png| png.len() as u64 <= limits.max_bytes)
        {
            return Ok(FittedPicture { media_type: "image/png", rewritten: Some(written) });
        }
        if let Some(written) = as_jpeg(&smaller).filter(|jpeg| jpeg.len() as u64 <= limits.max_bytes) {
            return Ok(FittedPicture { media_type: "image/jpeg", rewritten: Some(written) });
        }
        // Each round halves the number of pixels.
        side = (side * 7 / 10).max(1);
    }
    Err(PictureFitError::Incompressible)
}

/// Returns the longest side with which the picture, scaled in proportion, has at most `max_pixels` pixels.
fn side_within(picture: &DynamicImage, max_pixels: u64) -> u32 {
    let (width, height) = (f64::from(picture.width()), f64::from(picture.height()));
    let scale = (max_pixels as f64 / (width * height)).sqrt();
    // Both sides are rounded when the picture is scaled, so one pixel is left as a margin.
    ((width.max(height) * scale) as u32).saturating_sub(1).max(1)
}

fn as_png(picture: &DynamicImage) -> Option<Bytes> {
    let mut written = Cursor::new(Vec::new());
    picture.write_to(&mut written, ImageFormat::Png).ok()?;
    Some(written.into_inner().into())
}

/// Returns a colour as it looks on white behind it.
fn on_white(color: u8, alpha: u8) -> u8 {
    let (color, alpha) = (u32::from(color), u32::from(alpha));
    u8::try_from((color * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX)
}

/// Encodes a picture as JPEG. The format has no transparency, so transparent parts become white.
fn as_jpeg(picture: &DynamicImage) -> Option<Bytes> {
    let mut opaque = picture.to_rgba8();
    for Rgba([red, green, blue, alpha]) in opaque.pixels_mut() {
        for color in [red, green, blue] {
            *color = on_white(*color, *alpha);
        }
    }
    let opaque = DynamicImage::ImageRgba8(opaque).to_rgb8();
    let mut written = Vec::new();
    JpegEncoder::new_with_quality(&mut written, JPEG_QUALITY).encode_image(&opaque).ok()?;
    Some(written.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: PictureLimits =
        PictureLimits { max_side: 8_000, max_pixels: u64::MAX, max_bytes: 15_000_000 };

    /// A picture that compresses badly.
    fn noise(width: u32, height: u32) -> DynamicImage {
        let mut state = 1_u32;
        let picture = image::RgbImage::from_fn(width, height, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [red, green, blue, _] = state.to_be_bytes();
            image::Rgb([red, green, blue])
        });
        DynamicImage::ImageRgb8(picture)
    }

    fn written(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        picture.write_to(&mut out, format).unwrap();
        out.into_inner()
    }

    #[test]
    fn a_good_picture_stays_as_it_is_whatever_it_is_called() {
        let picture = noise(40, 30);
        for (format, media_type) in [
            (ImageFormat::Png, "image/png"),
            (ImageFormat::Jpeg, "image/jpeg"),
            (ImageFormat::Gif, "image/gif"),
            (ImageFormat::WebP, "image/webp"),
        ] {
            let content = written(&picture, format);
            assert_eq!(fit(&content, ROOMY), Ok(FittedPicture { media_type, rewritten: None }));
        }
        let fitted = fit(&written(&picture, ImageFormat::Bmp), ROOMY).unwrap();
        assert_eq!(fitted.media_type, "image/png", "few servers take BMP");
        assert_eq!(image::load_from_memory(&fitted.rewritten.unwrap()).unwrap().to_rgb8(), picture.to_rgb8());
    }

    #[test]
    fn a_picture_that_is_cut_off_is_damaged() {
        let content = written(&noise(40, 30), ImageFormat::Png);
        let half = &content[..content.len() / 2];
        assert!(matches!(fit(half, ROOMY), Err(PictureFitError::Damaged(_))));
        assert_eq!(fit(b"<svg xmlns='http://www.w3.org/2000/svg'/>", ROOMY), Err(PictureFitError::Unknown));
        assert_eq!(fit(b"", ROOMY), Err(PictureFitError::Unknown));
    }

    #[test]
    fn a_large_picture_is_made_smaller() {
        let content = written(&noise(400, 100), ImageFormat::Png);
        let narrow = PictureLimits { max_side: 200, ..ROOMY };
        let fitted = fit(&content, narrow).unwrap();
        let smaller = image::load_from_memory(&fitted.rewritten.unwrap()).unwrap();
        assert_eq!((smaller.width(), smaller.height()), (200, 50));
        let sparse = PictureLimits { max_pixels: 10_000, ..ROOMY };
        let fitted = fit(&content, sparse).unwrap();
        let smaller = image::load_from_memory(&fitted.rewritten.unwrap()).unwrap();
        assert!((9_000..=10_000).contains(&(smaller.width() * smaller.height())), "{:?}", smaller.width());
        let light = PictureLimits { max_bytes: 10_000, ..ROOMY };
        let fitted = fit(&content, light).unwrap();
        assert!(fitted.rewritten.is_some_and(|bytes| bytes.len() <= 10_000));
        assert_eq!(
            fit(&content, PictureLimits { max_bytes: 10, ..ROOMY }),
            Err(PictureFitError::Incompressible)
        );
    }
}
