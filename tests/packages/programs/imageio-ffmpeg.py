# Runs the program in the wheel.
# part: quick
# requires: imageio-ffmpeg==0.8.1
import subprocess
import tempfile

import imageio_ffmpeg


def run():
    program = imageio_ffmpeg.get_ffmpeg_exe()
    with tempfile.TemporaryDirectory() as folder:
        source = ["-f", "lavfi", "-i", "testsrc=size=160x120:rate=10:duration=1"]
        quiet = [program, "-loglevel", "error", "-nostdin"]
        subprocess.run([*quiet, *source, "-threads", "1", "-pix_fmt", "yuv420p", f"{folder}/video.mp4"], check=True)
        n_frames, seconds = imageio_ffmpeg.count_frames_and_secs(f"{folder}/video.mp4")
        raw = [*quiet, "-i", f"{folder}/video.mp4", "-f", "rawvideo", "-pix_fmt", "gray", "-"]
        pixels = subprocess.run(raw, capture_output=True, check=True).stdout
    return {"numbers": [n_frames, seconds, len(pixels), sum(pixels)]}
