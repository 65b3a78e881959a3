# part: quick
# requires: pydantic==2.14.4
from datetime import timedelta

from pydantic import BaseModel, Field, ValidationError


class Order(BaseModel):
    price: float = Field(gt=0)
    counts: list[int]
    wait: timedelta


def run():
    order = Order.model_validate_json('{"price": "2.5", "counts": [1, "2"], "wait": "PT90S"}')
    try:
        Order(price=-1, counts=["x"], wait=1)
    except ValidationError as error:
        n_errors = error.error_count()
    return {"numbers": [order.price, *order.counts, order.wait.total_seconds(), n_errors, len(order.model_dump_json())]}
