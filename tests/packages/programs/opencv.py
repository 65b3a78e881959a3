# part: slow
# requires: opencv-python-headless==5.0.0.93
import cv2
import numpy as np


def run():
    image = np.zeros((240, 320, 3), np.uint8)
    cv2.circle(image, (160, 120), 60, (0, 200, 255), -1)
    blurred = cv2.GaussianBlur(cv2.resize(image, (640, 480)), (9, 9), 2)
    edges = cv2.Canny(blurred, 50, 150)
    encoded, data = cv2.imencode(".png", image)
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    return {"numbers": [blurred.mean(), (edges > 0).sum(), encoded, (decoded == image).all()]}
