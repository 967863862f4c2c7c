"""Measurements of a machine and a model: `outrider bench`.

A measurement ends as a document (plain data, one JSON object) that says what was measured, on what, and how; tables, reports and
comparisons are made from documents alone, so that they can be made again from a file.
"""
