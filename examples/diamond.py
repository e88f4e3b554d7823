"""Four operators in the form of a diamond, built, planned on two devices, and drawn."""

import milp_plan as mp

model = mp.Model("diamond", time_unit="ms")
first, second = model.add_devices(2, memory="1GiB")
model.connect(first, second, bandwidth="25GB/s", latency="5us")
a, b, c, d = (model.add_operator(name, ms) for name, ms in zip("abcd", (2, 6, 5, 2), strict=True))
for source, target in ((a, b), (a, c), (b, d), (c, d)):
    model.add_value(source, target, bytes="50MB")
outcome = mp.solve(model, time_limit="20s")
print(outcome)
outcome.draw("diamond.png")
