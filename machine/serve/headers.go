package serve

// modelHeader says which model answered.
const modelHeader = "Randfeat-Model"

// surprisesHeader says how many values are unlike the training rows; absent if none are.
const surprisesHeader = "Randfeat-Surprises"

// idHeader names a request.
const idHeader = "X-Request-Id"

// csvHeader is the Content-Type of an answer in CSV.
const csvHeader = typeCSV + "; charset=utf-8; header=present"

// The supported kinds of content.
const (
	typeJSON   = "application/json"
	typeCSV    = "text/csv"
	typeTSV    = "text/tab-separated-values"
	typeNDJSON = "application/x-ndjson"
)
