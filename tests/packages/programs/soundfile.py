# part: slow
# requires: soundfile==0.14.0 numpy==2.4.6
import io
import tempfile

import numpy as np
import soundfile


def run():
    tone = np.sin(np.arange(16000) / 20)
    numbers = []
    for kind in "WAV", "FLAC", "OGG", "MP3":
        file = io.BytesIO()
        soundfile.write(file, tone, 16000, format=kind)
        file.seek(0)
        decoded, rate = soundfile.read(file)
        numbers += [rate, len(decoded), abs(decoded).mean()]
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        soundfile.write(file.name, tone, 8000)
        numbers.append(soundfile.info(file.name).frames)
    return {"numbers": numbers}
