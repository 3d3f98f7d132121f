def report(cases):
    return ""
