"""Clusters whose parts are killed while clients write: nothing acknowledged is lost, and the clients go on."""
