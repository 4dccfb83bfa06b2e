"""Other trainers: plug-ins for them, and the export of a recipe's trainings to them, one folder per trainer."""
