"""The producer, against fakes of connections and discovery."""
