# part: quick
# requires: shapely==2.2.0
import shapely
from shapely.geometry import Point, Polygon


def run():
    square = Polygon([(0, 0), (4, 0), (4, 4), (0, 4)])
    disk = Point(4, 4).buffer(2)
    tree = shapely.STRtree([Point(x, x % 7) for x in range(100)])
    return {"numbers": [square.intersection(disk).area, square.union(disk).length, square.distance(Point(7, 8)), tree.nearest(Point(50, 3))]}
