"""Published studies of such systems repeated on simulated populations: what each found, and what is found here.

`das-spark experiment` offers them; nothing else imports this package: the command line finds it by its entry point.
A study is a function of frozen settings with typed results: tables of raw values, and one page with figures. Nothing
here protects anybody: keys are made from seeds.
"""
