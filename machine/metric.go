package machine

// Metric describes the learned matrix of a kernel for people. No prediction depends on it.
type Metric struct {
	Kind    string `json:"kind"`    // diag½, diag or full½
	Rounds  int    `json:"rounds"`  // rounds of fit and gradients
	Scaling string `json:"scaling"` // scaling of the columns that the metric applies to
	Rows    int    `json:"rows"`    // number of rows it was learned from
	// Alike is the cosine between the metrics of two halves of the rows; 1 means that they agree.
	Alike float64 `json:"alike"`
	// Columns have the largest shares of the metric; all levels of a categorical column count together.
	Columns []MetricColumn `json:"columns"`
	// Directions are the eigenvectors of the largest eigenvalues of a metric that is not diagonal.
	Directions []MetricDirection `json:"directions,omitempty"`
}

// MetricColumn is a column with its share of a metric, or with its coordinate of a direction.
type MetricColumn struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// MetricDirection is a direction in which the predictions change.
type MetricDirection struct {
	Share float64 `json:"share"` // of the sum of eigenvalues
	// Alike is the absolute cosine between this direction in one half of the rows and in the other.
	Alike   float64        `json:"alike"`
	Columns []MetricColumn `json:"columns"` // columns with the largest coordinates
}
