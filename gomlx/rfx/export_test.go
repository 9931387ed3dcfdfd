package rfx

// Cluster returns the cluster of a key.
func (c *Centres) Cluster(y []float64) int { return c.cluster(y) }

// Centre returns the centre of a cluster.
func (c *Centres) Centre(i int) []float64 { return c.w.Centres.Row(i) }
