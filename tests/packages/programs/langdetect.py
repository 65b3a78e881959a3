# Has no wheels.
# part: slow
# requires: langdetect==1.0.9
# allow: build
from langdetect import DetectorFactory, detect_langs


def run():
    DetectorFactory.seed = 1
    texts = ["The boat sails on the river.", "Das Boot fährt auf dem Fluss.", "Le bateau navigue sur la rivière."]
    found = [detect_langs(text)[0] for text in texts]
    return {"numbers": [["en", "de", "fr"].index(language.lang) for language in found] + [found[0].prob]}
