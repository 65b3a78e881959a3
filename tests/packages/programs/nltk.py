# With data that it writes first, as a model has them in its folder.
# part: slow
# requires: nltk==3.10.4
import os
import tempfile

import nltk
from nltk.corpus import stopwords
from nltk.stem import PorterStemmer
from nltk.tokenize import wordpunct_tokenize


def run():
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/corpora/stopwords")
        with open(f"{folder}/corpora/stopwords/english", "w") as file:
            file.write("the\non\na\n")
        nltk.data.path.insert(0, folder)
        ignored = set(stopwords.words("english"))
        words = wordpunct_tokenize("The boats were sailing on the river, sailing fast.".lower())
        stems = nltk.FreqDist(PorterStemmer().stem(word) for word in words if word not in ignored)
    return {"numbers": [len(ignored), len(words), stems["sail"], stems["boat"], nltk.edit_distance("river", "rivet")]}
