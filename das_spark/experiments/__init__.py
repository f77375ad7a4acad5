"""Published studies done again on invented populations: what each found, and what is found here.

Every experiment is a function of frozen settings that returns typed results; the results are tables of raw values, and
one page with figures. Nothing here protects anybody: keys are made from seeds.
"""
