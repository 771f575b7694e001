"""Events about tables: kept in the state until they are sent, and sent by threads of their own."""
