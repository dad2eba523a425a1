"""What a run has found, for people and for programs; nothing here decides a verdict.

    terminal    Terminal(stream): `begin(total)`, `started(id)`, `finished(result)`, `end(run)`
    jsonfile    write(run, path), read(path): the run as it is, for `compare`
    junit       write(run, path): for continuous integration
    html        write(run, path): one page that needs nothing else
    compare     compare(before, after) -> Comparison; show(comparison, stream): what changed between two runs
    words       what the reports share: the order of verdicts, text of strangers made harmless

Everything that a subject said is hostile: control characters, escape sequences, markup, half characters.
"""
