# part: slow
# requires: librosa==0.11.0
import librosa
import numpy as np


def run():
    rate = 22050
    tone = np.sin(2 * np.pi * 440 * np.arange(rate) / rate).astype("float32")
    mel = librosa.feature.melspectrogram(y=tone, sr=rate, n_mels=32)
    # Compiled by Numba.
    pitch = librosa.yin(tone, fmin=200, fmax=800, sr=rate)
    slower = librosa.resample(tone, orig_sr=rate, target_sr=16000)
    return {"numbers": [mel.sum(), mel.argmax(), np.median(pitch), len(slower), abs(slower).max()]}
