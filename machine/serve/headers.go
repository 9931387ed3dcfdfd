package serve

// modelHeader tells which model answered.
const modelHeader = "Randfeat-Model"

// surprisesHeader tells how many values are unlike those of the fit; none: all are like them.
const surprisesHeader = "Randfeat-Surprises"

// idHeader names a request.
const idHeader = "X-Request-Id"

// csvHeader is the Content-Type of an answer in CSV.
const csvHeader = typeCSV + "; charset=utf-8; header=present"

// The kinds of content.
const (
	typeJSON   = "application/json"
	typeCSV    = "text/csv"
	typeTSV    = "text/tab-separated-values"
	typeNDJSON = "application/x-ndjson"
)
