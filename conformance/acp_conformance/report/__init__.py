"""Reports the findings of a run to people and to programs. Reports do not change verdicts.

    terminal    Terminal(stream): `begin(total)`, `started(id)`, `finished(result)`, `end(run)`
    jsonfile    write(run, path), read(path): the run unchanged, for `compare`
    junit       write(run, path): for continuous integration
    html        write(run, path): one page that needs nothing else
    compare     compare(before, after) -> Comparison; show(comparison, stream): the changes between two runs
    words       shared by the reports: the order of verdicts, foreign text made safe

A subject's text is not trusted: it may contain control characters, escape sequences, markup and surrogates.
"""
