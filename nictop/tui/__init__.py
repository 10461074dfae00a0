"""The live screen: `app` owns hosts and screens, `controllers` follow and act, `screens` and `widgets` draw.

`run` starts it. Keys are in `keys`; the help, the footer and README's table are made from them.
"""
