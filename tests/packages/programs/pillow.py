# part: quick
# requires: pillow==13.0.0
import io

from PIL import Image, ImageDraw, ImageFilter, ImageFont, ImageStat


def run():
    image = Image.new("RGB", (200, 100), "navy")
    ImageDraw.Draw(image).text((10, 30), "Carton", fill="white", font=ImageFont.load_default(32))
    small = image.filter(ImageFilter.GaussianBlur(2)).resize((100, 50), Image.Resampling.LANCZOS)
    sizes = []
    for kind in "PNG", "JPEG", "WEBP":
        file = io.BytesIO()
        small.save(file, kind)
        sizes.append(len(file.getvalue()))
        Image.open(file).load()
    return {"numbers": [*ImageStat.Stat(small).mean, *sizes]}
