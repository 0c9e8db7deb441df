"""`cuggino setup`: a question for every setting, answers that the file could hold, and what is written then."""
