# part: slow
# requires: pandas==3.1.1
import io

import pandas as pd


def run():
    table = pd.read_csv(io.StringIO("day,city,sold\n2026-01-01,Bonn,3\n2026-01-02,Köln,5\n2026-01-09,Bonn,4\n"))
    table["day"] = pd.to_datetime(table["day"]).dt.tz_localize("Europe/Berlin")
    by_city = table.groupby("city")["sold"].sum()
    weekly = table.set_index("day")["sold"].resample("W").sum()
    return {"numbers": [by_city["Bonn"], by_city["Köln"], *weekly, table["day"].dt.dayofweek.sum()]}
