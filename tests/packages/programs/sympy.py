# part: slow
# requires: sympy==1.14.0
import sympy


def run():
    x = sympy.symbols("x")
    roots = sympy.solve(x**3 - 6 * x**2 + 11 * x - 6, x)
    area = sympy.integrate(sympy.exp(-x) * sympy.sin(x), (x, 0, sympy.oo))
    function = sympy.lambdify(x, sympy.diff(sympy.sin(x) ** 2, x), "math")
    return {"numbers": [*map(float, roots), float(area), function(0.3), float(sympy.pi.evalf(30))]}
